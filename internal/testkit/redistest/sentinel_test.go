package redistest

import "testing"

func TestSentinel(t *testing.T) {
	t.Parallel()
	s := StartSentinel(t)
	first, second := s.master, s.replica
	s.Failover(t)
	if s.Master() != second {
		t.Errorf("the master is %s, want %s", s.Master(), second)
	}
	for server, want := range map[*Server]string{first: "slave", second: "master"} {
		if role := list(server.Do(t, "ROLE"))[0]; role != want {
			t.Errorf("%s is a %v, want %s", server, role, want)
		}
	}
	second.Do(t, "SET", "k", "value") // which a replica refuses
}
