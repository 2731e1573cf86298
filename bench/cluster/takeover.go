package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
)

type move struct {
	name string
	do   func(e *encoder, from *node) error // interrupts encoder e, which is connected to from
	dies bool                               // whether do kills the node

	flags []string // additional flags of the nodes
}

var moves = []move{
	{"kill -9 of the owner", killed, true, nil},
	{"the same with --takeover never", killed, true, []string{"--takeover", "never"}},
	{"the connection breaks", func(e *encoder, _ *node) error {
		e.stop()
		return nil
	}, false, nil},
	{"the old connection hangs", func(e *encoder, _ *node) error {
		close(e.hang)
		return nil
	}, false, nil},
}

func killed(e *encoder, from *node) error {
	err := kill(from.Server)
	e.done <- <-e.done // wait until the encoder notices that the connection is gone
	return err
}

// The type times holds the durations in milliseconds for one kind of move. Each trial adds one
// value to each Series.
type times struct{ admitted, picture, lost measure.Series }

// takeover measures how soon a viewer at a third node receives pictures again after an encoder has
// moved to another node.
func (b *bench) takeover(ctx context.Context) error {
	t := measure.NewTable("cluster-takeover", fmt.Sprintf(
		"An encoder moves to another node, %d times each, default lease of 5 s", options.trials),
		"what happens", "encoder let in after ms", "picture at the edge after ms",
		"pause in pictures ms", "viewers disconnected")
	t.Bar = 2
	t.Note = "Three nodes: the encoder moves between two of them, and connects to the other one at once. Times are " +
		"from its first try to connect; the pause is from the last picture before to the first one after, at a viewer " +
		"of the third node, which watches all trials of a row on one connection and compares every byte."
	for _, m := range moves {
		of, err := b.trials(ctx, m)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		t.Row(m.name, of.admitted, of.picture, of.lost, 0) // a disconnected viewer fails the trials
	}
	return b.Add(t)
}

func (b *bench) trials(ctx context.Context, m move) (*times, error) {
	const stream = "moved"
	s, err := b.nodes(ctx, 3, false, m.flags...)
	if err != nil {
		return nil, err
	}
	defer s.close()
	ctx, cancel := context.WithTimeout(ctx, time.Duration(options.trials+1)*trialTime)
	defer cancel()
	e := encode(ctx, s.nodes[0], stream)
	defer func() { e.stop() }()
	edge := watch(ctx, s.nodes[2], stream)
	defer edge.close()
	of := new(times)
	for i := range options.trials {
		from, to := s.nodes[i%2], s.nodes[(i+1)%2]
		last, err := edge.pictureSince(time.Now().Add(2 * time.Second)) // let the stream run
		if err != nil {
			return nil, err
		}
		old := e
		if err := m.do(old, from); err != nil {
			return nil, err
		}
		e = encode(ctx, to, stream)
		f := last
		for f.sent.Before(e.began) { // skip frames that were in flight
			if f.picture {
				last = f
			}
			if f, err = edge.next(); err != nil {
				return nil, err
			}
		}
		for !f.picture {
			if f, err = edge.next(); err != nil {
				return nil, err
			}
		}
		<-e.live // already closed, because a frame has arrived; e.admitted is set
		of.picture = append(of.picture, milliseconds(f.at.Sub(e.began)))
		of.admitted = append(of.admitted, milliseconds(e.admitted.Sub(e.began)))
		of.lost = append(of.lost, milliseconds(f.at.Sub(last.at)))
		b.Logf("cluster: %s: picture after %v, pause %v", m.name,
			f.at.Sub(e.began).Round(time.Millisecond), f.at.Sub(last.at).Round(time.Millisecond))
		if old.cut(); m.dies {
			if err := s.start(ctx, from); err != nil {
				return nil, err
			}
		}
	}
	return of, nil
}
