"""What a collector knows pushed to an OpenTelemetry receiver, where the environment names one."""
