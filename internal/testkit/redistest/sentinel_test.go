package redistest

import "testing"

func TestSentinel(t *testing.T) {
	t.Parallel()
	s := StartSentinel(t)
	client := s.Client(t)
	roundTrip(t, client, "k")
	first := s.Master()
	s.Failover(t)
	if s.Master() == first || first != s.replica {
		t.Error("the two have not changed places")
	}
	roundTrip(t, s.Client(t), "k")
	if got := first.Do(t, "ROLE").([]any)[0]; got != "slave" {
		t.Errorf("the old master is a %v", got)
	}
}
