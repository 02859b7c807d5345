/* The least that starting programs costs: `spawn JOBS AT_ONCE PROGRAM`. */
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>

extern char **environ;

int main(int argc, char **argv) {
    if (argc != 4)
        return 2;
    int jobs = atoi(argv[1]), at_once = atoi(argv[2]), alive = 0;
    char *program[] = {argv[3], NULL};
    while (jobs > 0 || alive > 0) {
        if (jobs > 0 && alive < at_once) {
            pid_t pid;
            if (posix_spawn(&pid, argv[3], NULL, NULL, program, environ) != 0)
                return 1;
            jobs--;
            alive++;
        } else if (wait(NULL) > 0) {
            alive--;
        }
    }
    return 0;
}
