// The page library: functions that run in a world of their own, which pages cannot see.
library.ping = (args) => args;
