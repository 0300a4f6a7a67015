"""What breaks amid the work of each application: connections, the broker, the object store, the disk, clocks, the process."""
