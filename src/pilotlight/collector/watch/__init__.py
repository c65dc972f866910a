"""Who watches over the running jobs: what their ranks sent lately, findings, alerts, triggers."""
