package sv2

// SetCalls makes s continue as if its key had been used n times.
func (s *Sealer) SetCalls(n uint64) { s.state.n = n }

// Calls returns how often the key has been used.
func (s *Sealer) Calls() uint64 { return s.state.n }

// SetCalls makes o continue as if its key had been used n times.
func (o *Opener) SetCalls(n uint64) { o.f.state.n = n }
