package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/millrace-io/millrace/internal/cluster"
)

// checkCluster checks what a node needs.
func (c *Config) checkCluster() error {
	if c.Cluster == "" {
		return nil
	}
	if u, err := url.Parse(c.Cluster); err != nil || u.Scheme != "redis" && u.Scheme != "rediss" || u.Host == "" {
		return errors.New("--cluster: want redis://HOST:PORT or rediss://HOST:PORT") // the URL may have a password
	}
	switch {
	case c.Advertise == "":
		return errors.New("--cluster needs --advertise: the address at which the other nodes reach this one, " +
			"as in http://10.0.0.5:8080")
	case c.ClusterToken == "":
		return errors.New("--cluster needs --cluster-token, the same for all nodes: they show it to each other")
	case strings.ContainsFunc(c.ClusterToken, func(r rune) bool { return r <= ' ' || r > '~' }):
		return errors.New("--cluster-token has a character that a header cannot show")
	case strings.ContainsAny(c.ClusterPrefix, "{}"):
		return fmt.Errorf("--cluster-prefix is %q, and braces have a meaning in keys", c.ClusterPrefix)
	}
	return c.checkAdvertise()
}

// checkAdvertise refuses what is not the address of a node.
func (c *Config) checkAdvertise() error {
	u, err := url.Parse(c.Advertise)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Port() == "" ||
		u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("--advertise is %q, want http://HOST:PORT or https://HOST:PORT", c.Advertise)
	}
	if ip := net.ParseIP(u.Hostname()); ip.IsUnspecified() {
		return fmt.Errorf("--advertise is %q, which no other machine can reach: want an address of this one", c.Advertise)
	}
	return nil
}

// self returns the address of this node for others, as they write it; "" if the server is alone.
func (c *Config) self() string {
	if c.Cluster == "" {
		return ""
	}
	return strings.TrimRight(c.Advertise, "/")
}

type nodeKey struct{}

// nodes lets the requests of other nodes pass to next, marked as such, and all others to others. A node shows the
// cluster's token, and needs no other one. A wrong one is refused.
func (s *Server) nodes(next, others http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown, ok := r.Header[cluster.HeaderToken]
		if !ok {
			others.ServeHTTP(w, r)
			return
		}
		if s.cfg.Cluster == "" || len(shown) != 1 || !sameToken(shown[0], s.cfg.ClusterToken) {
			reason := "wrong cluster token"
			if s.cfg.Cluster == "" {
				reason = "this server is no node of a cluster: it was started without --cluster"
			}
			s.log.Warn("node refused", "path", r.URL.Path, "client", r.RemoteAddr, "reason", reason)
			refuseBody(w, r, http.StatusForbidden, reason)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), nodeKey{}, r.Header.Get(cluster.HeaderNode))))
	})
}

// fromNode reports whether another node makes the request.
func fromNode(r *http.Request) bool { return r.Context().Value(nodeKey{}) != nil }

// askingNode returns the address of the node that makes the request, as it says.
func askingNode(r *http.Request) string {
	node, _ := r.Context().Value(nodeKey{}).(string)
	return node
}
