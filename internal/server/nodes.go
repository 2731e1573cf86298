package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

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
	peers  func() []string    // the other nodes' addresses, in order
	header func() http.Header // of a request to one
	client *http.Client

	mu   sync.Mutex // held while the nodes are asked, which reportTimeout bounds
	at   time.Time  // of last
	last []nodeReport
}

func newNodeReports(peers func() []string, header func() http.Header) *nodeReports {
	return &nodeReports{peers: peers, header: header, client: &http.Client{
		// No proxy, and no node is led elsewhere: the request has the cluster's token.
		Transport:     &http.Transport{MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: maxHeaderBytes},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// close ends the connections. No more is asked then.
func (n *nodeReports) close() { n.client.CloseIdleConnections() }

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
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, report.Node+"/api/streams", nil)
	if err != nil {
		return errors.New("its address cannot be read")
	}
	req.Header = n.header()
	res, err := n.client.Do(req)
	if err != nil {
		return errors.New("it does not answer: " + withoutURL(err).Error()) // whose address is known
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("it answers %d", res.StatusCode)
	}
	var said apiReport
	body := &io.LimitedReader{R: res.Body, N: reportBytes}
	err = json.NewDecoder(body).Decode(&said)
	switch {
	case err != nil && body.N == 0:
		return fmt.Errorf("its answer is longer than %d bytes", reportBytes)
	case err != nil:
		return errors.New("its answer cannot be read: " + err.Error())
	}
	report.Server, report.Streams = said.Server, append(report.Streams, said.Streams...)
	return nil
}
