package redis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/millrace-io/millrace/internal/leaktest"
)

func TestMain(m *testing.M) {
	Main()
	leaktest.Main(m)
}

// missing skips a test that cannot run without a program, but not where all of them must be installed.
func missing(t *testing.T, err error) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(err)
	}
	t.Skip(err)
}

// start starts a server for a test.
func start(t *testing.T, unix bool) *Server {
	t.Helper()
	s, err := StartServer(t.Context(), unix)
	if errors.Is(err, ErrNoServer) {
		missing(t, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// TestContendersDeliver checks that nobody wins by leaving something out: what is got is the value, what is set is set.
func TestContendersDeliver(t *testing.T) {
	for _, unix := range []bool{false, true} {
		srv := start(t, unix)
		for _, size := range []int{1, 1000, 70_000, 3 << 20} {
			for _, task := range Tasks {
				for _, c := range task.contenders {
					t.Run(fmt.Sprintf("%s/%d/%s/%s", srv.Network, size, task.Key, c.Name), func(t *testing.T) {
						deliver(t, srv, size, task, c)
					})
				}
			}
		}
	}
}

// deliver has c make two calls, and looks at what came of them.
func deliver(t *testing.T, srv *Server, size int, task Task, c Contender) {
	ctx := t.Context()
	const calls = 2
	got, addr := collect(t)
	site, err := srv.site(ctx, size, addr)
	if err != nil {
		t.Fatal(err)
	}
	var seen bytes.Buffer
	site.audit = func(p []byte) { seen.Write(p) }
	rdb := newGoRedis(site)
	defer rdb.Close()
	rdb.Del(ctx, setKey)
	w, err := assemble(ctx, c, site, 1)
	if err != nil {
		t.Fatal(err)
	}
	err = w.calls(calls)
	w.dismiss()
	if err != nil {
		t.Fatal(err)
	}
	switch task.Key {
	case "to":
		io.Copy(&seen, <-got)
	case "set", "file":
		for range calls {
			seen.WriteString(rdb.Get(ctx, setKey).Val())
		}
	}
	if want := bytes.Repeat(site.value(), calls); !bytes.Equal(seen.Bytes(), want) {
		t.Fatalf("%d bytes that differ from the %d of %d values", seen.Len(), len(want), calls)
	}
}

// collect returns an address, and what is sent there on the first connection.
func collect(t *testing.T) (<-chan io.Reader, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	all := make(chan io.Reader, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		var b bytes.Buffer
		io.Copy(&b, conn)
		all <- &b
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return all, l.Addr().String()
}

func TestTables(t *testing.T) {
	srv := start(t, false)
	p := &Plan{
		Server: srv, Tasks: Tasks, Sizes: []int{1000, 64 << 10}, Goroutines: []int{1, 3}, Rounds: 2,
		Turn: time.Millisecond, Beside: 100 * time.Millisecond, Log: t.Logf,
	}
	results, err := p.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	beside, err := p.RunBeside(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	idle, err := p.RunIdle(t.Context(), 10)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	p.WriteTables(&b, results)
	p.WriteRivals(&b, results)
	p.WriteBeside(&b, beside)
	p.WriteIdle(&b, idle, 10)
	for _, task := range Tasks {
		for _, c := range task.contenders {
			if !strings.Contains(b.String(), "| "+c.Name) {
				t.Errorf("no row of %q", c.Name)
			}
		}
	}
	for _, task := range RivalTasks() {
		for _, us := range task.ours {
			if rows := strings.Count(b.String(), "| "+us.name+" "); us.from == 0 && rows != len(p.Sizes)*len(p.Goroutines) {
				t.Errorf("%d rows of %s beside its rivals", rows, us.name)
			}
		}
	}
	if strings.Contains(b.String(), "NaN") || strings.Contains(b.String(), "| - ") {
		t.Errorf("holes in the tables:\n%s", b.String())
	}
	for _, i := range idle {
		if i.Name == "redisbuf" && i.Heap.Median() > 32<<10 {
			t.Errorf("%.0f bytes of heap an idle connection of redisbuf", i.Heap.Median())
		}
	}
}

func TestCountCalls(t *testing.T) {
	p := &Plan{Server: start(t, false), Tasks: Tasks[:1], Log: t.Logf}
	all, err := p.CountCalls(t.Context())
	if errors.Is(err, ErrNoStrace) {
		missing(t, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		if c.Writes < 0.5 || c.Reads < 0.5 {
			t.Errorf("%s: %+v", c.Contender, c)
		}
	}
}

func TestTraced(t *testing.T) {
	var sum traced
	for _, line := range []string{
		`12 read(7<socket:[4242]>, ""..., 4096) = -1 EAGAIN (Resource temporarily unavailable)`,
		`12 readv(7<socket:[4242]>,  <unfinished ...>`,
		`13 <... readv resumed>[{iov_base=""..., iov_len=9}], 1) = 9`,
		`123456 writev(7<socket:[4242]>, [{iov_base=""..., iov_len=9}], 1) = 9`,
		`12 write(5<anon_inode:[eventfd]>, ""..., 8) = 8`,
		`12 splice(7<socket:[4242]>, NULL, 9<pipe:[1]>, NULL, 65536, 0) = 65536`,
		`12 epoll_pwait(4<anon_inode:[eventpoll]>, [], 128, 0, NULL, 0) = 0`,
	} {
		sum.add(line)
	}
	if want := (traced{writes: 1, reads: 2, inVain: 1, moves: 1, waits: 1}); sum != want {
		t.Errorf("got %+v, want %+v", sum, want)
	}
}

func TestParseSizes(t *testing.T) {
	sizes, err := ParseSizes("1KiB, 10MiB,77")
	if err != nil || fmt.Sprint(sizes) != "[1024 10485760 77]" {
		t.Errorf("%v, %v", sizes, err)
	}
	for _, n := range sizes {
		if again, err := ParseSizes(SizeName(n)); err != nil || again[0] != n {
			t.Errorf("%d is called %q", n, SizeName(n))
		}
	}
	for _, s := range []string{"", "0", "-1", "1MB", "513MiB", "1KiB,", "9223372036854775807KiB"} {
		if sizes, err := ParseSizes(s); err == nil {
			t.Errorf("%q is %v", s, sizes)
		}
	}
}

func TestRepeatEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := repeat(ctx, func(context.Context) error { return nil }, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if err := repeat(ctx, func(context.Context) error { return goredis.Nil }, 1); !errors.Is(err, goredis.Nil) {
		t.Errorf("%v", err)
	}
}
