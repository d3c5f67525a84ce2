"""Charts: functions from numbers to drawings. Colour means outcome or way of asking, never method."""
