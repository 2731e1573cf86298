package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/millrace-io/millrace/internal/cluster"
	"github.com/millrace-io/millrace/internal/lock"
	"github.com/millrace-io/millrace/internal/relay"
	"golang.org/x/sync/errgroup"
)

const (
	// reportFresh is how long what the other nodes have said is told again: pages ask once a second.
	reportFresh = time.Second
	// reportTimeout is how long a node may take to answer. One that is slower is shown as such, and the page is not late.
	reportTimeout = 2 * time.Second
	// reportBytes bounds an answer: some 5,000 streams.
	reportBytes = 4 << 20
	// reportAsked bounds how many nodes are asked at a time, and with reportBytes what their answers hold until they have
	// been read.
	reportAsked = 8
	// reportStreams bounds what is told of all nodes together. Nodes beyond it are listed without their streams.
	reportStreams = 20_000
)

// nodeReport is what another node says of itself, or why it does not.
type nodeReport struct {
	Node    string             `json:"node"`
	Error   string             `json:"error,omitempty"`
	Server  apiServer          `json:"server"`
	Streams []relay.StreamInfo `json:"streams"`
}

// nodeReports asks the other nodes for their reports, once for all who want them within reportFresh.
type nodeReports struct {
	peers func() []string // the other nodes' addresses, in order
	from  func(node, path string, gzip bool) cluster.Fetch

	mu   lock.Mutex // held while the nodes are asked, which reportTimeout bounds
	at   time.Time  // of last
	last []nodeReport
}

// get returns a report for each of the other nodes, in the order of their addresses. The caller must not change what it
// gets. When ctx ends, what has not been answered is an error.
func (n *nodeReports) get(ctx context.Context) []nodeReport {
	n.mu.Lock()
	defer n.mu.Unlock()
	if time.Since(n.at) < reportFresh {
		return n.last
	}
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	list := make([]nodeReport, 0)
	for _, node := range n.peers() {
		list = append(list, nodeReport{Node: node, Streams: []relay.StreamInfo{}})
	}
	var asking errgroup.Group
	asking.SetLimit(reportAsked)
	for i := range list {
		asking.Go(func() error {
			if err := n.ask(ctx, &list[i]); err != nil {
				list[i].Error = err.Error()
			}
			return nil
		})
	}
	_ = asking.Wait()
	left := reportStreams
	for i := range list {
		if left -= len(list[i].Streams); left < 0 {
			list[i].Error, list[i].Streams = "too many streams in all to be told here", []relay.StreamInfo{}
		}
	}
	n.at, n.last = time.Now(), list
	return list
}

// ask fills in the report of a node.
func (n *nodeReports) ask(ctx context.Context, report *nodeReport) error {
	out, err := n.from(report.Node, "/api/streams", false)(ctx, func(size int64) error {
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
	var said apiReport
	if err := json.Unmarshal(out.Body.Bytes(), &said); err != nil {
		return fmt.Errorf("its answer cannot be read: %w", err)
	}
	report.Server, report.Streams = said.Server, append(report.Streams, said.Streams...)
	return nil
}
