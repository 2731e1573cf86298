package soak

import (
	"slices"
	"testing"
	"time"
)

// A run has passed only if a process of each server had enough quiet points, and it was not interrupted.
func TestVerdict(t *testing.T) {
	lives := func(lengths ...int) (list [][]Point) {
		for _, n := range lengths {
			list = append(list, make([]Point, n))
		}
		return list
	}
	for _, test := range []struct {
		name     string
		report   Report
		want     Verdict
		unjudged []string
	}{
		{"enough", Report{Servers: []ServerReport{{Name: "a", Lives: lives(1, pointsWanted)}, {Name: "b", Lives: lives(30)}}}, Passed, nil},
		{"one point less", Report{Servers: []ServerReport{{Name: "a", Lives: lives(1, pointsWanted-1)}, {Name: "b", Lives: lives(30)}}},
			Unjudged, []string{"server a: too short to judge drift: 7 of 8 quiet points"}},
		{"many short lives", Report{Servers: []ServerReport{{Name: "a", Lives: lives(4, 4, 4)}}},
			Unjudged, []string{"server a: too short to judge drift: 4 of 8 quiet points"}},
		{"no quiet point", Report{Servers: []ServerReport{{Name: "a"}}},
			Unjudged, []string{"server a: too short to judge drift: 0 of 8 quiet points"}},
		{"interrupted", Report{Interrupted: true, Took: 3 * time.Second, Servers: []ServerReport{{Name: "a", Lives: lives(30)}}},
			Unjudged, []string{"interrupted after 3s of 1m0s"}},
		{"wrong and too short", Report{Reasons: []string{"x"}, Servers: []ServerReport{{Name: "a", Lives: lives(1)}}},
			Failed, []string{"server a: too short to judge drift: 1 of 8 quiet points"}},
	} {
		rep := test.report
		rep.judge(time.Minute)
		if rep.Verdict != test.want || !slices.Equal(rep.Unjudged, test.unjudged) {
			t.Errorf("%s: %s, %q", test.name, rep.Verdict, rep.Unjudged)
		}
	}
	rep := Report{Servers: []ServerReport{{Lives: lives(1, 7, 8, 30)}}}
	if rep.judge(time.Minute); !slices.Equal(rep.Servers[0].Judged, []int{0, 0, 6, 28}) {
		t.Errorf("judged by %v", rep.Servers[0].Judged)
	}
}

// What rules of trends take for enough is what the verdict does.
func TestTrendsAreJudgedAsTheVerdictSays(t *testing.T) {
	for n := range pointsWanted + 2 {
		points := series(n, func(i int, p *Point) { p.RSS += int64(i) * 1024 * mib })
		if found := len(judge(rules(false), points)) > 0; found != (judged(n) > 0) {
			t.Errorf("%d quiet points: found is %v, and judged are %d", n, found, judged(n))
		}
	}
}

// A run that is long enough to be judged goes on until it can be, and no other does.
func TestTheEndOfARun(t *testing.T) {
	for _, test := range []struct {
		length time.Duration
		gone   time.Duration
		points int // of the process that is running; negative: there was none yet
		over   bool
	}{
		{time.Hour, time.Second, 1000, false},
		{12 * time.Second, 13 * time.Second, -1, false},
		{12 * time.Second, 13 * time.Second, pointsWanted - 1, false},
		{12 * time.Second, 13 * time.Second, pointsWanted, true},
		{11 * time.Second, 13 * time.Second, 0, true},
		{time.Hour, 2 * time.Hour, 3, false},
		{time.Hour, 2 * time.Hour, 100, true},
	} {
		cfg := Config{Program: []string{"x"}, For: test.length, Streams: 1, Viewers: 1, Rate: minRate}
		if err := cfg.check(); err != nil {
			t.Fatal(err)
		}
		r := &run{cfg: cfg, began: time.Now().Add(-test.gone), houses: []*house{{}}}
		if test.points >= 0 {
			r.houses[0].life = &life{points: make([]Point, test.points)}
		}
		if over := r.over(); over != test.over {
			t.Errorf("%+v: %v", test, over)
		}
	}
}
