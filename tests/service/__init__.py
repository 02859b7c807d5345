"""The service and the image for real; long, as root, and on demand."""
