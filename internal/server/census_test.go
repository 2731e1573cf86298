package server

import "testing"

// Who was admitted before everybody was ended, and comes after, is ended as well; and the census is empty when it has
// left.
func TestTheCensusEndsWhoIsOnTheWay(t *testing.T) {
	c := newCensus(2)
	early, late := &viewer{}, &viewer{}
	for range 2 {
		if err := c.admit(); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.admit(); err == nil {
		t.Error("more were admitted than may be")
	}
	c.enter(early)
	if early.over() {
		t.Error("the first one was ended when it came")
	}
	empty := c.close()
	if err := c.admit(); err != errDraining {
		t.Errorf("after the end: %v", err)
	}
	c.end(drained)
	c.enter(late)
	for name, v := range map[string]*viewer{"early": early, "late": late} {
		if why := ending(v.why.Load()); why != drained {
			t.Errorf("the %s viewer: %v", name, why)
		}
	}
	c.leave(early)
	select {
	case <-empty:
		t.Error("empty, with one inside")
	default:
	}
	c.leave(late)
	select {
	case <-empty:
	default:
		t.Error("not empty")
	}
}
