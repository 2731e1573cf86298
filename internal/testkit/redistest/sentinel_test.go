package redistest

import "testing"

func TestSentinel(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		opts []Option
	}{
		{"killed", nil},
		{"swapped, with TLS and password", []Option{TLS(), Password("secret")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := StartSentinel(t, tt.opts...)
			client := s.Client(t)
			roundTrip(t, client, "k")
			first, second := s.Master(t), s.Replica(t)
			if tt.opts == nil {
				first.Kill()
				s.awaitMaster(t, second)
				roundTrip(t, s.Client(t), "k")
				return
			}
			if s.Failover(t) != second || s.Master(t) != second || s.Replica(t) != first {
				t.Error("the two have not changed places")
			}
			roundTrip(t, s.Client(t), "k")
		})
	}
}
