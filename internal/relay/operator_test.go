package relay

import (
	"context"
	"testing"
	"time"
)

// A slowCluster makes a publisher an owner when it may.
type slowCluster struct {
	Cluster
	asked, may chan struct{}
}

func (c *slowCluster) Claim(ctx context.Context, name string) (Lease, error) {
	c.asked <- struct{}{}
	<-c.may
	return c.Cluster.Claim(ctx, name)
}

// A name that the operator refuses while the cluster is asked about its publisher gets no publisher, and no owner.
func TestEndStreamWhileItsPublisherComes(t *testing.T) {
	slow := &slowCluster{asked: make(chan struct{}), may: make(chan struct{})}
	dir := newTestDirectory()
	n := dir.node(t, func(c *Config) {
		slow.Cluster = c.Cluster
		c.Cluster = slow
	})
	came := make(chan error, 1)
	go func() {
		p, err := n.Open("cam", "192.0.2.1:1")
		if err == nil {
			p.Close(nil)
			p.Done()
		}
		came <- err
	}()
	<-slow.asked
	if was, err := n.EndStream("cam", time.Hour); was || err != nil {
		t.Errorf("%v, %v", was, err)
	}
	close(slow.may)
	if err := <-came; err == nil {
		t.Error("it publishes")
	} else if refused, ok := err.(*Refusal); !ok || refused.Cause != CauseOperator || refused.RetryAfter <= 0 {
		t.Errorf("%v", err)
	}
	if l := dir.owner("cam"); l != nil {
		t.Error("the node still owns the stream")
	}
}
