package live_test

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/refuse"
)

// A duringClaim is a cluster that calls a function whenever the node has become an owner.
type duringClaim struct {
	*testNode
	call func()
}

func (c *duringClaim) Claim(ctx context.Context, name string) (live.Lease, error) {
	l, err := c.testNode.Claim(ctx, name)
	c.call()
	return l, err
}

// operatorRefused reports whether err is the operator's refusal of a name.
func operatorRefused(err error) bool {
	r, ok := errors.AsType[*refuse.Refusal](err)
	return ok && r.Cause == refuse.ByOperator && r.Status == http.StatusForbidden &&
		r.RetryAfter > 0
}

// If a name is refused while its publisher waits for the cluster, there is no stream and no owner.
func TestRefuseDuringClaim(t *testing.T) {
	d := newTestDirectory()
	var n *testNode
	n = d.node(t, func(c *live.Config) {
		c.Cluster = &duringClaim{c.Cluster.(*testNode), func() {
			if _, err := live.NewOperator(n.Hub).EndStream("cam", time.Hour); err != nil {
				t.Error(err)
			}
		}}
	})
	if _, err := n.Open("cam", "test", live.Terms{}); !operatorRefused(err) {
		t.Fatalf("the publisher got %v", err)
	}
	if n.LookUp("cam") != nil || d.owner("cam") != nil {
		t.Error("the stream is there, or has an owner")
	}
}

// When the limit of refused names is reached, another name is not refused, and its stream
// continues. The refusal of a name can be extended, and a stream can be ended without refusing its
// name.
func TestRefusedNamesAreBounded(t *testing.T) {
	h := newHubTest(t, nil)
	for i := range live.MaxRefusedNames {
		if _, err := live.NewOperator(h.Hub).EndStream(strconv.Itoa(i), time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	p := h.open()
	if _, err := live.NewOperator(h.Hub).EndStream("cam", time.Hour); err == nil ||
		p.Lifetime().Err() != nil {
		t.Errorf("one more name: %v, and its publisher %v", err, p.Lifetime().Err())
	}
	if _, err := live.NewOperator(h.Hub).EndStream("7", time.Minute); err != nil {
		t.Error(err)
	}
	if was, err := live.NewOperator(h.Hub).EndStream("cam", 0); !was || err != nil ||
		p.Lifetime().Err() == nil {
		t.Errorf("without a refusal of its name: %v, %v", was, err)
	}
	p.Close(nil)
	p.Answered()
	if _, err := h.Open("7", "test", live.Terms{}); !operatorRefused(err) {
		t.Errorf("a refused name: %v", err)
	}
	if _, err := live.NewOperator(h.Hub).EndStream("8", 0); err != nil {
		t.Error(err)
	}
	if _, err := live.NewOperator(h.Hub).EndStream("cam", time.Hour); err != nil {
		t.Errorf("one name was freed: %v", err)
	}
}

// A stream of another node is not ended: the error names the node, and the pull continues.
func TestEndAPulledStream(t *testing.T) {
	t.Parallel()
	d := newTestDirectory()
	owner, edge := d.node(t, nil), d.node(t, nil)
	p := owner.Publisher("cam")
	p.Send(newScript(2, 5, 100).whole())
	w := edge.Watcher("/live/cam.flv", 0)
	was, err := live.NewOperator(edge.Hub).EndStream("cam", time.Hour)
	if r, ok := errors.AsType[*refuse.Refusal](err); was || !ok ||
		r.Status != http.StatusConflict || !strings.Contains(r.Reason, owner.via) {
		t.Fatalf("at the edge: %v, %v; the owner is %s", was, err, owner.via)
	}
	if was, err := live.NewOperator(owner.Hub).EndStream("cam", time.Hour); !was || err != nil {
		t.Fatalf("at the owner: %v, %v", was, err)
	}
	if res := p.End(); res.Status != http.StatusForbidden {
		t.Errorf("the publisher: %d %s", res.Status, res.Body)
	}
	w.Rest()
}
