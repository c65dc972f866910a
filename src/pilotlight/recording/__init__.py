"""What a job left behind: one folder of Arrow streams, written by the agent, read by anybody."""
