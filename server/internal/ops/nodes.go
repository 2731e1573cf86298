package ops

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/live/cluster"
	"github.com/millrace-io/millrace/server/internal/lock"
	"golang.org/x/sync/errgroup"
)

const (
	// reportFresh is how long the reports of other nodes are reused: pages ask once a second.
	reportFresh = time.Second
	// reportTimeout is how long a node may take to answer. One that is slower is shown as such, and
	// the page is not late.
	reportTimeout = 2 * time.Second
	// reportBytes bounds an answer: some 5,000 streams.
	reportBytes = 4 << 20
	// reportAsked limits concurrent requests to nodes and, with reportBytes, the memory of their
	// answers.
	reportAsked = 8
	// reportStreams limits the streams of all nodes together. Nodes beyond it are listed without
	// their streams.
	reportStreams = 20_000
)

var errTooManyStreams = errors.New("too many streams in total to be listed here")

// nodes asks the other nodes for their reports, once for all who want them within reportFresh.
type nodes struct {
	peers func() []string // the other nodes' addresses, in order
	from  func(node, path string) cluster.Fetch

	proven func(node string) bool // it has proved to be a node

	mu   lock.Mutex // held while the nodes are asked, which reportTimeout bounds
	at   time.Time  // of last
	last []NodeReport
	// By node: one that is not proven is not asked again for failedPause.
	failed map[string]failedReport
}

// failedPause is how long a node is not asked that has failed: anyone who may publish in Redis can
// invent nodes.
const failedPause = 5 * time.Second

type failedReport struct {
	at     time.Time
	reason string
}

// get returns a report for each of the other nodes, in the order of their addresses. The caller
// must not change the result. Nodes that have not answered when ctx ends are reported as errors.
func (n *nodes) get(ctx context.Context) []NodeReport {
	n.mu.Lock()
	defer n.mu.Unlock()
	if time.Since(n.at) < reportFresh {
		return n.last
	}
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	list := make([]NodeReport, 0)
	for _, node := range n.peers() {
		list = append(list, NodeReport{Node: node, Streams: []live.StreamInfo{}})
	}
	var asking errgroup.Group
	asking.SetLimit(reportAsked)
	for i := range list {
		report := &list[i]
		if f, failed := n.failed[report.Node]; failed && time.Since(f.at) < failedPause &&
			!n.proven(report.Node) {
			report.Error = f.reason
			continue
		}
		asking.Go(func() error {
			if err := n.ask(ctx, report); err != nil {
				report.Error, report.Streams = err.Error(), []live.StreamInfo{}
			}
			return nil
		})
	}
	_ = asking.Wait()
	n.noteFailed(list)
	left := reportStreams
	for i := range list {
		if left -= len(list[i].Streams); left < 0 {
			list[i].Error, list[i].Streams = errTooManyStreams.Error(), []live.StreamInfo{}
		}
	}
	n.at, n.last = time.Now(), list
	return list
}

// noteFailed notes the nodes that have failed, and when they did first. mu is held.
func (n *nodes) noteFailed(list []NodeReport) {
	failed := make(map[string]failedReport)
	for _, r := range list {
		if r.Error == "" {
			continue
		}
		f, known := n.failed[r.Node]
		if !known || time.Since(f.at) >= failedPause {
			f = failedReport{time.Now(), r.Error}
		}
		failed[r.Node] = f
	}
	n.failed = failed
}

// ask fills in the report of a node.
func (n *nodes) ask(ctx context.Context, report *NodeReport) error {
	out, err := n.from(report.Node, "/api/streams")(ctx, func(size int64) error {
		if size > reportBytes {
			return fmt.Errorf("%d bytes are more than %d", size, reportBytes)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("it does not answer: %w", err)
	}
	defer out.Body.Release()
	if out.Status != http.StatusOK {
		return fmt.Errorf("it answers %d", out.Status)
	}
	if err := report.read(out.Body.Reader()); err != nil {
		return fmt.Errorf("its answer cannot be read: %w", err)
	}
	return nil
}

// read reads the answer of a node stream by stream, and no further than reportStreams: an answer of
// a few megabytes may name a million of them.
func (r *NodeReport) read(answer io.Reader) error {
	dec := json.NewDecoder(answer)
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return cmp.Or(err, errors.New("no object"))
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return err
		}
		switch key {
		case "server":
			err = dec.Decode(&r.Server)
		case "streams":
			err = r.readStreams(dec)
		default:
			err = dec.Decode(new(json.RawMessage))
		}
		if err != nil {
			return err
		}
	}
	_, err := dec.Token()
	return err
}

func (r *NodeReport) readStreams(dec *json.Decoder) error {
	if t, err := dec.Token(); err != nil || t != json.Delim('[') {
		return err // or null
	}
	for dec.More() {
		if len(r.Streams) == reportStreams {
			return errTooManyStreams
		}
		var s live.StreamInfo
		if err := dec.Decode(&s); err != nil {
			return err
		}
		r.Streams = append(r.Streams, s)
	}
	_, err := dec.Token()
	return err
}
