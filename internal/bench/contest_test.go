package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// sleeper is a contender of which one operation takes d.
func sleeper(key string, d time.Duration, did func(n int)) contender {
	return quick(key, key, func(n int) {
		time.Sleep(time.Duration(n) * d)
		did(n)
	})
}

// Under a clock that stands still while nobody sleeps, what is measured is what was slept.
func TestContestMeasuresWhatItTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &session{suite: "s", effort: Effort{Rounds: 3, Turn: 10 * time.Millisecond}, report: new(Report)}
		most := 0
		c := contest{"key", "what is done", "op", []contender{
			sleeper("ours", 20*time.Nanosecond, func(n int) { most = max(most, n) }),
			sleeper("slow", 100*time.Microsecond, func(int) {}),
			sleeper("fast", 5*time.Nanosecond, func(int) {}),
		}}
		began := time.Now()
		if err := c.run(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if len(s.report.Figures) != 2 {
			t.Fatalf("%d figures", len(s.report.Figures))
		}
		slow, fast := s.report.Figures[0], s.report.Figures[1]
		if slow.Name != "s/key/slow" || fast.Name != "s/key/fast" || slow.Unit != "ns/op" || slow.What != "what is done" {
			t.Errorf("%+v", slow)
		}
		if !slices.Equal(slow.Values, Series{20, 20, 20}) || slow.Rival.Median != 100_000 || slow.Ratio.Median != 5000 {
			t.Errorf("%v, rival %v, ratio %v", slow.Values, slow.Rival, slow.Ratio)
		}
		if *fast.Ratio != (Spread{0.25, 0.25, 0.25}) || fast.Verdict() != "lost" {
			t.Errorf("ratio to who is four times as fast: %v", fast.Ratio)
		}
		if want := 500_000; most != want {
			t.Errorf("a turn of 10 ms did it %d times, want %d", most, want)
		}
		// Nine turns of 10 ms, once more before each, and calibration: half a turn at most for each, and what follows it.
		if took := time.Since(began); took < 90*time.Millisecond || took > 120*time.Millisecond {
			t.Errorf("took %v", took)
		}
	})
}

// A clock that does not move, or a task that takes no time, ends calibration all the same.
func TestCalibrateEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, err := calibrate(t.Context(), &task{do: func(int) error { return nil }}, time.Second)
		if err != nil || n < 1 {
			t.Errorf("%d, %v", n, err)
		}
		broken := errors.New("broken")
		if _, err := calibrate(t.Context(), &task{do: func(int) error { return broken }}, time.Second); err != broken {
			t.Error(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := calibrate(ctx, &task{do: func(int) error { return nil }}, time.Second); err != context.Canceled {
			t.Error(err)
		}
	})
}

func TestContendersHaveTheirTurnsInACrossoverOrder(t *testing.T) {
	var order []string
	err := inTurns(t.Context(), 4, 3, func(round, i int) error {
		order = append(order, fmt.Sprint(round, i))
		return nil
	})
	want := []string{"0 0", "0 1", "0 2", "1 1", "1 2", "1 0", "2 2", "2 0", "2 1", "3 2", "3 1", "3 0"}
	if err != nil || !slices.Equal(order, want) {
		t.Errorf("%v, %v", order, err)
	}
}

// When a contest is interrupted, the rounds that everybody has done count, and every task is closed.
func TestContestInterrupted(t *testing.T) {
	for _, tt := range []struct{ after, rounds int }{{1, 0}, {2, 1}, {3, 1}, {4, 2}, {5, 2}} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			turns, closed := 0, 0
			s := &session{suite: "s", effort: Effort{Rounds: 9, Turn: time.Millisecond}, report: new(Report)}
			s.cfg.Progress = func(Progress) {
				if turns++; turns == tt.after {
					cancel()
				}
			}
			open := func(key string) contender {
				return contender{key, key, func(context.Context) (*task, error) {
					return &task{
						do:    func(n int) error { time.Sleep(time.Duration(n) * time.Microsecond); return nil },
						close: func() { closed++ },
					}, nil
				}}
			}
			c := contest{"key", "what", "op", []contender{open("a"), open("b")}}
			if err := c.run(ctx, s); err != context.Canceled {
				t.Errorf("after %d turns: %v", tt.after, err)
			}
			got := 0
			for _, f := range s.report.Figures {
				got = len(f.Values)
			}
			if got != tt.rounds || closed != 2 {
				t.Errorf("after %d turns: %d rounds, want %d; %d tasks closed", tt.after, got, tt.rounds, closed)
			}
		})
	}
}

// What goes wrong names the contender.
func TestContestFails(t *testing.T) {
	broken := errors.New("broken")
	fine := quick("fine", "fine", func(int) { time.Sleep(time.Microsecond) })
	for _, bad := range []contender{
		{"bad", "who fails", func(context.Context) (*task, error) { return nil, broken }},
		{"bad", "who fails", func(context.Context) (*task, error) {
			return &task{do: func(int) error { return broken }}, nil
		}},
	} {
		s := &session{effort: Effort{Rounds: 1, Turn: time.Microsecond}, report: new(Report)}
		c := contest{"key", "what", "op", []contender{fine, bad}}
		if err := c.run(t.Context(), s); !errors.Is(err, broken) || err.Error() != "who fails: broken" {
			t.Error(err)
		}
		if len(s.report.Figures) != 0 {
			t.Error("a figure without a rival's value")
		}
	}
}
