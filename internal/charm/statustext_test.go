package charm

// String is a status as tables of tests have it.
func (s Status) String() string { return string(s.Kind) + ": " + s.Message }
