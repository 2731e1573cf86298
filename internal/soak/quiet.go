package soak

import (
	"context"
	"fmt"
	"time"
)

// firstLooks is how often a server is looked at while there is nothing yet to compare it with. What is about to end, as
// a connection that was closed a moment ago, can only be too much: the least of all looks counts.
const firstLooks = 10

// A life is one process of a server, from quiet point to quiet point.
type life struct {
	epoch   int
	points  []Point
	watcher *watcher
	hangUp  func()    // closes the clients' connections
	since   Sample    // when the last quiet point was over
	sinceAt time.Time // and when that was
	used    Usage

	losses *losses // of the cycle before; nil if the process is younger than that
}

// Usage is what the server has used in the time between its quiet points. What the watching itself costs is not in it.
type Usage struct {
	Time      time.Duration `json:"time_ns"`
	Allocated int64         `json:"allocated_bytes"`
	Collected int64         `json:"collections"`
}

// quiet waits until the server has nothing to do, looks at what it holds, and adds it to the life's points. The error says
// that it cannot be asked.
func (l *life) quiet(ctx context.Context, rules []rule, settle time.Duration, at time.Duration) (Sample, error) {
	reached, err := l.settle(ctx, rules, settle)
	if err != nil {
		return reached, err
	}
	if len(l.points) > 0 {
		l.used.Time += time.Since(l.sinceAt)
		l.used.Allocated += reached.allocated - l.since.allocated
		l.used.Collected += reached.collected - l.since.collected
	}
	if err := l.watcher.collect(ctx); err != nil {
		return reached, err
	}
	after, err := l.watcher.sample(ctx)
	if err != nil {
		return reached, err
	}
	point := after
	// The rest was waited for, and the collection has woken somebody, perhaps.
	point.Goroutines, point.Descriptors, point.PoolInUse = reached.Goroutines, reached.Descriptors, reached.PoolInUse
	l.points = append(l.points, Point{At: at, Sample: point})
	l.since, l.sinceAt = after, time.Now()
	return reached, nil
}

// settle returns a sample that is as it should be, or, when that does not come about, the last one.
func (l *life) settle(ctx context.Context, rules []rule, within time.Duration) (Sample, error) {
	deadline := time.Now().Add(within)
	var least Sample
	for looks := 1; ; looks++ {
		l.hangUp() // again: a request over HTTP/2 that was given up holds its connection for a moment longer
		s, err := l.watcher.sample(ctx)
		if err != nil {
			return s, err
		}
		if looks > 1 && len(l.points) <= warmUp {
			s.Goroutines, s.Descriptors = min(s.Goroutines, least.Goroutines), min(s.Descriptors, least.Descriptors)
		}
		least = s
		late := time.Now().After(deadline)
		switch {
		case late && s.busy > 0:
			return s, fmt.Errorf("%d streams, viewers, downloads and uploads are in progress, says the server, %v after all have left",
				s.busy, within)
		case late:
			return s, nil
		case s.busy == 0 && settled(rules, l.points, s) && (len(l.points) > warmUp || looks >= firstLooks):
			return s, nil
		}
		if !pause(ctx, pollEvery) {
			return s, ctx.Err()
		}
	}
}
