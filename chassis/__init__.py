"""What every service is bolted onto. It knows events, commands and calls, and no domain noun."""
