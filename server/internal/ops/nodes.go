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
	// reportFresh is how long the reports of other nodes are cached. A page requests them once a
	// second.
	reportFresh = time.Second
	// reportTimeout limits the wait for a report. A slower node is listed with an error.
	reportTimeout = 2 * time.Second
	// reportBytes is the maximum size in bytes of the report that another node sends. It is enough
	// for about 5,000 streams.
	reportBytes = 4 << 20
	// reportAsked is the maximum number of reports that are requested from other nodes at the same
	// time. Together, the reports need at most reportAsked times reportBytes of memory.
	reportAsked = 8
	// reportStreams is the maximum number of streams in the reports of all other nodes together. If
	// there are more, the remaining nodes are listed without their streams.
	reportStreams = 20_000
)

var errTooManyStreams = errors.New("too many streams in total to be listed here")

// A nodes value gets the reports of the other nodes, and caches them for reportFresh.
type nodes struct {
	peers func() []string // returns the sorted addresses of the other nodes
	from  func(node, path string) cluster.Fetch

	proven func(node string) bool // whether a node has proved that it knows the cluster's token

	mu   lock.Mutex // held during requests to nodes, which take at most reportTimeout
	at   time.Time  // when last was fetched
	last []NodeReport
	// failed maps nodes to their latest failed request; see failedPause.
	failed map[string]failedReport
}

// If a request to a node fails, the node gets no further request for failedPause. The pause does
// not apply to a node that has proved that it knows the cluster's token. Without the pause, anyone
// who can use PUBLISH in Redis could invent nodes and make this node send requests to them.
const failedPause = 5 * time.Second

type failedReport struct {
	at     time.Time
	reason string
}

// get returns a report for each of the other nodes, sorted by address. If a node does not answer in
// time, its report has only an error. The caller must not modify the result.
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

// noteFailed sets n.failed to the reports in list that have an error. The caller must hold n.mu.
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

// read decodes a node's answer. It decodes one stream at a time, and at most reportStreams streams,
// because an answer of a few megabytes could contain a million streams.
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
		return err // nil for a JSON null
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
