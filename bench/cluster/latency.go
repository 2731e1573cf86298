package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
)

// The type ages holds one row of the latency table, in milliseconds. Each trial adds one value to
// each Series.
type ages struct {
	name          string
	p50, p99, max measure.Series
}

func (a *ages) add(d []time.Duration) {
	slices.Sort(d)
	a.p50 = append(a.p50, milliseconds(d[len(d)/2]))
	a.p99 = append(a.p99, milliseconds(d[len(d)*99/100]))
	a.max = append(a.max, milliseconds(d[len(d)-1]))
}

func (b *bench) latency(ctx context.Context) error {
	rows := []*ages{{name: "the owner"}, {name: "an edge"},
		{name: "an edge, minus the same frame at the owner"}}
	for range options.trials {
		if err := b.latencyTrial(ctx, rows); err != nil {
			return err
		}
	}
	return b.Add(latencyTable(rows))
}

// latencyTrial starts an owner and an edge, and measures the age of each frame when it arrives at a
// viewer of each node. It adds the ages at the owner to rows[0], the ages at the edge to rows[1],
// and the differences to rows[2].
func (b *bench) latencyTrial(ctx context.Context, rows []*ages) error {
	s, err := b.nodes(ctx, 2, false)
	if err != nil {
		return err
	}
	defer s.close()
	ctx, cancel := context.WithTimeout(ctx, trialTime+time.Duration(options.seconds)*time.Second)
	defer cancel()
	e := encode(ctx, s.nodes[0], "ages")
	defer e.stop()
	owner, edge := watch(ctx, s.nodes[0], "ages"), watch(ctx, s.nodes[1], "ages")
	defer owner.close()
	defer edge.close()
	// Omit the first second, because frames that were sent before the viewers joined may have any
	// age.
	from := time.Now().Add(time.Second)
	until := from.Add(time.Duration(options.seconds) * time.Second)
	at := make(map[uint64]time.Time)
	var all [3][]time.Duration
	for f := (frame{}); f.sent.Before(until); {
		if f, err = owner.next(); err != nil {
			return err
		}
		if !f.sent.Before(from) {
			at[f.seq] = f.at
			all[0] = append(all[0], f.at.Sub(f.sent))
		}
	}
	for f := (frame{}); f.sent.Before(until); {
		if f, err = edge.next(); err != nil {
			return err
		}
		if there, ok := at[f.seq]; ok {
			all[1] = append(all[1], f.at.Sub(f.sent))
			all[2] = append(all[2], f.at.Sub(there))
		}
	}
	if len(all[1]) != len(all[0]) {
		return fmt.Errorf("%d frames came to the owner's viewer, and %d of them to the edge's",
			len(all[0]), len(all[1]))
	}
	for i, d := range all {
		rows[i].add(d)
	}
	b.Logf("cluster: an edge adds %.1f ms (p50), %.1f ms (p99), %.1f ms (most)",
		rows[2].p50[len(rows[2].p50)-1],
		rows[2].p99[len(rows[2].p99)-1], rows[2].max[len(rows[2].max)-1])
	return nil
}

func latencyTable(rows []*ages) *measure.Table {
	t := measure.NewTable("cluster-latency", fmt.Sprintf(
		"The age of frames at viewers, default bound of 50 ms, %d starts of the nodes",
		options.trials),
		"viewer at", "p50 ms", "p99 ms", "most ms")
	t.Bar = 1
	t.Note = "From the encoder's write to the last byte at the viewer. The viewers watch the same stream at the same " +
		"time. Owner and edge each flush every 50 ms, at moments that depend on when the process started: what an edge " +
		"adds is between nothing and 50 ms, and stays so until one of the two starts again."
	for _, r := range rows {
		t.Row(r.name, r.p50, r.p99, r.max)
	}
	return t
}
