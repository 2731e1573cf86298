package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A suite is some cases of one part of the library.
type suite struct {
	name, what string
	length     func(Effort) time.Duration // that it takes, about
	run        func(context.Context, *session) error
}

// suites are all of them, in the order in which they are run: those that need no server first.
func suites() []suite {
	return []suite{
		contestSuite("reader", "Packets of 1 KiB from a source that gives 64 to 2048 bytes at a time", readerContests),
		contestSuite("stackbuf", "Short strings put together in a new buffer each time", stackbufContests),
		contestSuite("arena", "Frames assembled, handed over and let go", arenaContests),
		{"redis", redisWhat, redisLength, runRedis},
		{"files", filesWhat, filesLength, runFiles},
		{"relay", relayWhat, relayLength, runRelay},
	}
}

// contestSuite is a suite of contests that need nothing. They are made only when somebody runs them: every command of
// the program asks for the names as it starts.
func contestSuite(name, what string, contests func() []contest) suite {
	return suite{name, what,
		func(e Effort) time.Duration {
			turns := 0
			for _, c := range contests() {
				turns += len(c.contenders) * e.Rounds
			}
			return time.Duration(turns) * e.Turn
		},
		func(ctx context.Context, s *session) error {
			for _, c := range contests() {
				if err := c.run(ctx, s); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// All is the name that stands for all suites.
const All = "all"

// Names returns the names of the suites, in order.
func Names() []string {
	var names []string
	for _, s := range suites() {
		names = append(names, s.name)
	}
	return names
}

// choose returns the suites of these names, in their own order; none means all.
func choose(names []string) (chosen []suite, all bool, err error) {
	all = len(names) == 0 || slices.Contains(names, All)
	known := suites()
	for _, name := range names {
		if name != All && !slices.ContainsFunc(known, func(s suite) bool { return s.name == name }) {
			return nil, false, fmt.Errorf("bench: no suite %q: there are %s and %s", name, strings.Join(Names(), ", "), All)
		}
	}
	for _, s := range known {
		if all || slices.Contains(names, s.name) {
			chosen = append(chosen, s)
		}
	}
	return chosen, all, nil
}

// missingError says what must be installed before a suite can run.
type missingError struct{ what string }

func (e *missingError) Error() string { return e.what }

// missing says whether err is about something that is not installed.
func missing(err error) bool {
	_, ok := errors.AsType[*missingError](err)
	return ok
}
