package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/bench/measure/benchtest"
)

func TestMain(m *testing.M) { benchtest.Main(m) }

func start(t *testing.T) *server {
	t.Helper()
	s, err := startServer(t.Context())
	benchtest.Need(t, err)
	t.Cleanup(s.stop)
	return s
}

// TestContendersDeliver checks that reads return the value, and that sets store it.
func TestContendersDeliver(t *testing.T) {
	srv := start(t)
	for _, size := range []int{1, 1000, 70_000, 3 << 20} {
		for _, task := range tasks {
			for _, c := range task.contenders {
				if err := c.check(t.Context(), srv, task, size); err != nil {
					t.Errorf("%s of %d: %s delivers another value: %v", task.key, size, c.name, err)
				}
			}
		}
	}
}

// TestCheckSeesOtherBytes uses contenders that move nothing, or too little.
func TestCheckSeesOtherBytes(t *testing.T) {
	srv := start(t)
	idle := contender{"idle", func(*fixture) (call, error) {
		return func(context.Context) error { return nil }, nil
	}}
	short := contender{"short", func(f *fixture) (call, error) {
		less := *f
		less.size--
		return goRedisSet(&less)
	}}
	for _, c := range []contender{idle, short} {
		if err := c.check(t.Context(), srv, tasks[1], 100); err == nil {
			t.Errorf("%s: it is not seen that the value was not set", c.name)
		}
	}
	if err := idle.check(t.Context(), srv, tasks[0], 100); err == nil {
		t.Error("it is not seen that the value was not read")
	}
}

func TestProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	start(t)
	var out strings.Builder
	args := []string{"-rounds", "1", "-turn", "1ms", "-sizes", "1000,64KiB", "-goroutines", "1,3",
		"-beside", "100ms"}
	if err := Program.Main(t.Context(), args, &out, t.Output()); err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		for _, c := range task.contenders {
			if n := strings.Count(out.String(), "| "+c.name); n < 2 {
				t.Errorf("%d rows of %q:\n%s", n, c.name, &out)
			}
		}
	}
	if strings.Contains(out.String(), "NaN") || strings.Contains(out.String(), "| - ") {
		t.Errorf("holes in the tables:\n%s", &out)
	}
}

func TestServerIsGone(t *testing.T) {
	srv := start(t)
	srv.Stop()
	if _, err := srv.newFixture(t.Context(), 1); err == nil {
		t.Error("clients find a server that has ended")
	}
}

func TestParseSizes(t *testing.T) {
	sizes, err := parseSizes("1KiB, 10MiB,77")
	if err != nil || fmt.Sprint(sizes) != "[1024 10485760 77]" {
		t.Errorf("parseSizes = %v, %v", sizes, err)
	}
	for _, n := range sizes {
		if again, err := parseSizes(measure.SizeName(n)); err != nil || again[0] != n {
			t.Errorf("%d is called %q", n, measure.SizeName(n))
		}
	}
	for _, s := range []string{"", "0", "-1", "1MB", "513MiB", "1KiB,", "9223372036854775807KiB"} {
		if sizes, err := parseSizes(s); err == nil {
			t.Errorf("%q is accepted as %v", s, sizes)
		}
	}
}

func TestRepeatEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := repeat(ctx, func(context.Context) error { return nil }, 1); !errors.Is(err,
		context.Canceled) {
		t.Errorf("%v, want context.Canceled", err)
	}
	if err := repeat(ctx, func(context.Context) error { return goredis.Nil }, 1); !errors.Is(err,
		goredis.Nil) {
		t.Errorf("%v, want redis.Nil", err)
	}
}
