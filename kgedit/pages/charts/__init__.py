"""Charts: functions that convert numbers to drawings. Colour encodes outcome or evaluation, never method."""
