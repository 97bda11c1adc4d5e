"""Messages between controllers and BMv2."""
