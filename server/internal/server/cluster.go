package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/server/internal/access"
	"github.com/millrace-io/millrace/server/internal/conn/acme"
	"github.com/millrace-io/millrace/server/internal/conn/address"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/live/cluster"
	"github.com/millrace-io/millrace/server/internal/ops"
	"github.com/millrace-io/millrace/server/internal/refuse"
	"github.com/millrace-io/millrace/server/internal/streamname"
)

type clusterNode struct {
	*cluster.Node
	self      string // URL at which other nodes reach this node
	directory *cluster.Redis
	secret    *cluster.Secret
	segments  *cluster.Segments // nil if only this node stores its segments
	objects   *cluster.Objects
	observed  *ops.Cluster
	hls       *cluster.RemoteHLS
}

// openNode makes this server a node of the cluster in cfg. The caller must call close on the
// result. If cfg names no cluster, the result is nil.
//
// openNode sets the fields Cluster and HLSStore of the live.Config, so that the nodes of the
// cluster share their streams.
func openNode(cfg *Config, streams *live.Config) (*clusterNode, error) {
	if cfg.Cluster == "" {
		return nil, nil
	}
	trust, err := loadCA(cfg.ClusterCA)
	if err != nil {
		return nil, fmt.Errorf("--cluster-ca: %w", err)
	}
	directory, err := cfg.openDirectory()
	if err != nil {
		return nil, fmt.Errorf("--cluster: %w", err)
	}
	secret := cluster.NewSecret(cfg.ClusterToken, cfg.self())
	n := &clusterNode{self: cfg.self(), directory: directory, secret: secret,
		Node: cluster.NewNode(cluster.Config{
			Directory: directory, Self: cfg.self(), Secret: secret, TLS: trust, Dial: cfg.Dial,
			Lease:    cfg.ClusterLease,
			Takeover: cfg.Takeover, Log: cfg.Log,
		})}
	streams.Cluster = n.Node
	if n.segments, err = openSegments(cfg); err != nil {
		_ = n.directory.Close()
		return nil, fmt.Errorf("--segments: %w", err)
	}
	if n.segments != nil {
		streams.HLSStore = n.segments
	}
	n.objects = cluster.NewObjects(cfg.ClusterCache, cfg.HLS.MaxBytes, secret, trust, cfg.Dial)
	n.hls = cluster.NewRemoteHLS(n.Node, n.objects, n.segments, cfg.ViewerWait)
	n.observed = ops.NewCluster(n.Node, n.objects, n.segments, secret)
	return n, nil
}

// openSegments opens the store that keeps HLS segments after their node has ended. It returns nil
// if cfg names no such store.
func openSegments(cfg *Config) (*cluster.Segments, error) {
	if cfg.Segments == "" {
		return nil, nil
	}
	return cluster.OpenRedisSegments(cfg.clusterRedis(), cfg.SegmentsKeep, cfg.Log)
}

// loadCA returns the TLS configuration for connections to other servers. It trusts the certificate
// authorities in a PEM file in addition to the system's authorities. If file is "", loadCA returns
// nil, and the connections trust only the system's authorities.
func loadCA(file string) (*tls.Config, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		return nil, err
	}
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate in PEM", file)
	}
	return &tls.Config{RootCAs: roots}, nil
}

func (c *Config) openDirectory() (*cluster.Redis, error) {
	return cluster.OpenRedis(c.clusterRedis())
}

func (c *Config) clusterRedis() cluster.RedisConfig {
	return cluster.RedisConfig{Address: c.Cluster, Password: c.ClusterPassword,
		Prefix: c.ClusterPrefix, Lease: c.ClusterLease, Dial: c.Dial}
}

func (n *clusterNode) drain() {
	if n != nil {
		n.Drain()
	}
}

// close releases the node's leases, saves the remaining segments, and closes the connections.
// Saving stops when ctx ends. The caller must not call close before all streams have ended.
func (n *clusterNode) close(ctx context.Context) (err error) {
	if n == nil {
		return nil
	}
	n.objects.Close()
	if n.segments != nil {
		err = n.segments.Close(ctx)
	}
	n.Node.Close()
	return errors.Join(err, n.directory.Close())
}

func (n *clusterNode) remote() *cluster.RemoteHLS {
	if n == nil {
		return nil
	}
	return n.hls
}

func (c *Config) checkCluster() error {
	if c.Cluster == "" {
		return nil
	}
	d, err := c.openDirectory()
	if err != nil {
		return fmt.Errorf("--cluster: %w", err)
	}
	_ = d.Close()
	switch {
	case c.Advertise == "":
		return errors.New(
			"--cluster needs --advertise: the address at which the other nodes reach this one, " +
				"as in http://10.0.0.5:8080")
	case c.ClusterToken == "":
		return errors.New(
			"--cluster needs --cluster-token, the same for all nodes: they prove to each other that they know it")
	}
	if err := c.checkAdvertise(); err != nil {
		return err
	}
	return c.checkAdvertisedName()
}

func (c *Config) checkAdvertise() error {
	u, err := url.Parse(c.Advertise)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" ||
		u.Port() == "" ||
		u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("--advertise is %q, want http://HOST:PORT or https://HOST:PORT",
			c.Advertise)
	}
	if ip := net.ParseIP(u.Hostname()); ip.IsUnspecified() {
		return fmt.Errorf(
			"--advertise is %q, which no other machine can reach: want an address of this one",
			c.Advertise)
	}
	return nil
}

// checkAdvertisedName returns an error if the other nodes would not accept the certificates of
// --acme.
func (c *Config) checkAdvertisedName() error {
	if c.ACME == "" {
		return nil
	}
	hosts, err := acme.ParseHosts(c.ACME)
	u, _ := url.Parse(c.Advertise)
	if err == nil && (u.Scheme != "https" || !slices.Contains(hosts, strings.ToLower(u.Hostname()))) {
		err = fmt.Errorf("--advertise is %q, and --acme has no certificate for it: want https://HOST:PORT, "+
			"with this node's own name, which --acme lists too", c.Advertise)
	}
	return err
}

// self returns the URL of this node in the form that other nodes use, or "" if the server is not in
// a cluster.
func (c *Config) self() string {
	if c.Cluster == "" {
		return ""
	}
	return strings.TrimRight(c.Advertise, "/")
}

// admitNodes returns a handler that passes requests from other nodes to the handler forNodes, and
// all other requests to the handler forClients.
//
// Each request from a node must prove that the node knows the cluster's token. The node needs no
// other token. If the proof is wrong, the request is refused. If the proof is right, forNodes can
// get the address of the node from access.NodeOf.
//
// If the server is not in a cluster, n is nil, and requests from nodes are refused.
func (n *clusterNode) admitNodes(refusals *access.Refusals, forNodes,
	forClients http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, ok := r.Header[cluster.HeaderProof]; !ok {
			forClients.ServeHTTP(w, r)
			return
		}
		if n == nil {
			refusals.Refuse(access.Node, w, r, refuse.New(http.StatusForbidden,
				"this server is no node of a cluster: it was started without --cluster"))
			return
		}
		switch n.secret.Admit(w.Header(), r) {
		case cluster.Challenged: // nodes get a new challenge now and then
			w.WriteHeader(http.StatusUnauthorized)
			return
		case cluster.Refused:
			refusals.Refuse(access.Node, w, r, refuse.New(http.StatusForbidden,
				"wrong cluster token, or a request for another node than %s", n.self))
			return
		}
		// The path of a pull ends with the name of the stream. Other paths name no stream.
		if name, ok := strings.CutPrefix(r.URL.Path, streamname.Path); ok {
			n.NoteEpoch(name, cluster.EpochOf(r))
		}
		// A node makes requests for many clients, so the limits of an address do not apply.
		ctx := address.NewContext(r.Context(), (*address.Account)(nil))
		ctx = access.WithNode(ctx, r.Header.Get(cluster.HeaderNode))
		forNodes.ServeHTTP(w, r.WithContext(ctx))
	})
}
