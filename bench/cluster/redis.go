package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
)

// benchLease is the default duration of a lease in millrace serve.
const benchLease = 5 * time.Second

// A directory is a child process that sends the same requests to Redis as nodes do.
type directory struct {
	cmd    *exec.Cmd
	tasks  io.WriteCloser
	answer *bufio.Scanner
}

// startDirectory starts a directory that uses the Redis server of s. The caller must call close.
func (s *site) startDirectory(ctx context.Context) (*directory, error) {
	bin, err := measure.Build(ctx, s.b.dir, "server/internal/bench/directory")
	if err != nil {
		return nil, err
	}
	d := &directory{cmd: exec.CommandContext(ctx, bin, "redis://"+s.addr)}
	d.cmd.Stderr = os.Stderr
	if d.tasks, err = d.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	d.answer = bufio.NewScanner(out)
	return d, d.cmd.Start()
}

func (d *directory) do(task string) error {
	if _, err := fmt.Fprintln(d.tasks, task); err != nil {
		return err
	}
	if !d.answer.Scan() {
		return fmt.Errorf("%s: no answer: %w", task,
			errors.Join(d.answer.Err(), io.ErrUnexpectedEOF))
	}
	if answer := d.answer.Text(); answer != "ok" {
		return fmt.Errorf("%s: %s", task, answer)
	}
	return nil
}

func (d *directory) close() {
	_ = d.tasks.Close()
	_ = d.cmd.Wait()
}

type directoryTask struct {
	name string
	task string // name of the task in the directory program
	cost func(*costs) *float64
}

// calls is the number of operations of each task per round.
const calls = 20_000

var directoryTasks = []directoryTask{
	{"claim of a stream", "claim", func(c *costs) *float64 { return &c.claim }},
	{"renewal of a stream, 500 in a pipeline", "renew",
		func(c *costs) *float64 { return &c.renew }},
	{"lookup of a stream", "lookup", func(c *costs) *float64 { return &c.lookup }},
	{"heartbeat of a node, for each of 50 nodes that hear it", "hear",
		func(c *costs) *float64 { return &c.heard }},
}

func (b *bench) redisCosts(ctx context.Context) error {
	s := &site{b: b}
	defer s.close()
	if err := s.startRedis(ctx); err != nil {
		return err
	}
	d, err := s.startDirectory(ctx)
	if err != nil {
		return err
	}
	defer d.close()
	t := measure.NewTable("cluster-redis", "What Redis uses for what nodes ask of it",
		"task", "CPU µs of Redis", "a second on one CPU")
	t.Bar = 1
	took := make([]measure.Series, len(directoryTasks))
	cpu := cpuOf(s.redis)
	err = measure.Rounds(ctx, len(directoryTasks), b.Rounds, func(round, i int) error {
		task := directoryTasks[i].task
		if round == 0 { // load the scripts and create the streams
			if err := d.do("claim 500"); err != nil {
				return err
			}
		}
		before, err := cpu()
		if err != nil {
			return err
		}
		if err := d.do(fmt.Sprintf("%s %d", task, calls)); err != nil {
			return err
		}
		after, err := cpu()
		took[i] = append(took[i], (after-before)*1e6/calls)
		return err
	})
	if err != nil {
		return err
	}
	for i, task := range directoryTasks {
		t.Row(task.name, took[i], 1e6/took[i].Median())
		*task.cost(&b.costs) = took[i].Median()
	}
	return b.Add(t)
}
