package cluster

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-io/millrace/server/internal/lock"
)

const (
	// HeaderProof carries the proof that the sender of a request or a response knows the cluster's
	// token. A response may carry a challenge instead, which the next request must include.
	HeaderProof = "Millrace-Cluster"
	// HeaderNode carries the address of the node that sends a request.
	HeaderNode = "Millrace-Node"
)

const (
	// challengeTime is how long a challenge is valid. A challenge is a text from this node that
	// another node must include in its proof that it knows the cluster's token. After
	// challengeTime, the other node gets a new challenge.
	challengeTime = 10 * time.Minute
	// maxKnown is the maximum number of other nodes that a Secret remembers. For each node, it
	// stores the last challenge. It also stores whether the node has proved that it knows the
	// cluster's token.
	maxKnown = 512
)

var (
	errChallenged = errors.New("the node wants a proof with its challenge")
	errNoProof    = errors.New("it does not prove that it knows the cluster token")
)

// A Secret proves to other nodes that this node knows the cluster's token, and checks that the
// other nodes know the token. The token is never sent.
//
// HeaderProof carries the proofs:
//   - A request carries "CHALLENGE NONCE EPOCH MAC". The challenge is a text that the receiver has
//     sent in an earlier response, or "-" if there was none. The nonce is a random text from the
//     sender. If the request is sent to the owner of a stream, EPOCH is the greatest epoch of the
//     stream that the sender knows. Otherwise it is 0.
//   - If the challenge is not valid, the response has the status 401 and carries a new challenge.
//   - If the MAC of the request is correct, the response carries only "MAC".
//
// A MAC is an HMAC with the token as its key. It covers these values:
//   - the role of the sender: client or server
//   - the address that was dialled
//   - the challenge, the nonce and the epoch
//   - the method and the URI of the request
//   - the address of the node that sends the request
//
// An attacker cannot prove anything by relaying messages to a real node, because the address that
// was dialled is the attacker's, and not the address of the real node.
type Secret struct {
	token []byte
	self  string
	key   [32]byte // signs this node's challenges
	start time.Time

	mu    lock.Mutex
	nodes map[string]*knownNode // by address; at most maxKnown
}

type knownNode struct {
	challenge string
	proven    bool // the node has proved that it knows the token
}

// NewSecret returns a Secret for this node. self is this node's address for other nodes. token is
// the secret text that all nodes of the cluster share.
func NewSecret(token, self string) *Secret {
	s := &Secret{token: []byte(token), self: self, start: time.Now(),
		nodes: make(map[string]*knownNode)}
	_, _ = rand.Read(s.key[:]) // rand.Read never fails
	return s
}

// Sign adds two headers to a request: the address of this node, and the proof that this node knows
// the cluster's token. The parameter epoch is the greatest epoch of the stream that this node
// knows, or 0 if the request requires no ownership.
func (s *Secret) Sign(req *http.Request, epoch uint64) {
	var nonce [16]byte
	_, _ = rand.Read(nonce[:])
	s.mu.Lock()
	challenge := "-" // this node has no challenge from the receiver yet
	if n := s.nodes[nodeOf(req)]; n != nil && n.challenge != "" {
		challenge = n.challenge
	}
	s.mu.Unlock()
	req.Header.Set(HeaderNode, s.self)
	p := proof{challenge, hex.EncodeToString(nonce[:]), strconv.FormatUint(epoch, 10)}
	req.Header.Set(HeaderProof, strings.Join([]string{
		p.challenge, p.nonce, p.epoch, s.mac("client", nodeOf(req), p, req, req.URL.RequestURI())},
		" "))
}

// Check returns an error if a response has no valid proof that its sender knows the cluster's
// token. If the response has a new challenge instead of a proof, retry is true. The caller must
// then sign and send the request again.
func (s *Secret) Check(res *http.Response) (retry bool, err error) {
	req := res.Request
	p, _, ok := parseProof(req.Header.Get(HeaderProof))
	shown, node := res.Header.Get(HeaderProof), nodeOf(req)
	switch {
	case !ok:
		return false, errNoProof
	case res.StatusCode == http.StatusUnauthorized && len(shown) == challengeSize &&
		shown != p.challenge:
		s.updateNode(node, func(n *knownNode) { n.challenge = shown })
		return true, errChallenged
	case !hmac.Equal([]byte(shown), []byte(s.mac("server", node, p, req, req.URL.RequestURI()))):
		return false, fmt.Errorf("%w (status %d)", errNoProof, res.StatusCode)
	}
	s.updateNode(node, func(n *knownNode) { n.proven = true })
	return false, nil
}

// updateNode calls the function change with the entry of another node. If there is no entry,
// updateNode adds an entry first. s.mu is held while change runs.
func (s *Secret) updateNode(node string, change func(n *knownNode)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes[node]
	if n == nil {
		if len(s.nodes) >= maxKnown {
			s.forgetOne()
		}
		n = &knownNode{}
		s.nodes[node] = n
	}
	change(n)
}

// forgetOne removes the entry of one node. It prefers a node that has not proved that it knows the
// cluster's token. The caller must hold s.mu.
func (s *Secret) forgetOne() {
	last := ""
	for node, n := range s.nodes {
		if last = node; !n.proven {
			break
		}
	}
	delete(s.nodes, last)
}

// Proven reports whether a node has proved that it knows the cluster's token.
func (s *Secret) Proven(node string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes[node]
	return n != nil && n.proven
}

// A Verdict is the result of checking another node's request.
type Verdict uint8

// The values of Verdict.
const (
	Proved Verdict = iota
	Challenged
	Refused
)

// Admit checks whether the sender of a request has proved that it knows the cluster's token. The
// parameter header is the header of the response. If the proof is valid, Admit adds the proof of
// this node to this header. If the sender needs a new challenge, Admit adds the challenge instead.
func (s *Secret) Admit(header http.Header, req *http.Request) Verdict {
	p, mac, ok := parseProof(req.Header.Get(HeaderProof))
	switch {
	case !ok:
		return Refused
	case !s.isChallenge(p.challenge):
		header.Set(HeaderProof, s.newChallenge())
		return Challenged
	case !hmac.Equal([]byte(mac), []byte(s.mac("client", s.self, p, req, req.RequestURI))):
		return Refused
	}
	header.Set(HeaderProof, s.mac("server", s.self, p, req, req.RequestURI))
	return Proved
}

// EpochOf returns the epoch in a request that Admit has found to be Proved. It returns 0 if the
// request has no epoch.
func EpochOf(req *http.Request) uint64 {
	p, _, _ := parseProof(req.Header.Get(HeaderProof))
	if epoch, err := strconv.ParseUint(p.epoch, 10, 64); err == nil && epoch <= maxEpoch {
		return epoch
	}
	return 0
}

// A proof is the value of HeaderProof in a request, without the MAC.
type proof struct{ challenge, nonce, epoch string }

func parseProof(text string) (p proof, mac string, ok bool) {
	fields := strings.Split(text, " ")
	if len(fields) != 4 || len(text) > 512 {
		return proof{}, "", false
	}
	return proof{fields[0], fields[1], fields[2]}, fields[3], true
}

func (s *Secret) mac(role, address string, p proof, req *http.Request, uri string) string {
	m := hmac.New(sha256.New, s.token)
	for _, part := range []string{role, address, p.challenge, p.nonce, p.epoch, req.Method, uri,
		req.Header.Get(HeaderNode)} {
		_ = binary.Write(m, binary.BigEndian, uint32(len(part)))
		m.Write([]byte(part))
	}
	return hex.EncodeToString(m.Sum(nil))
}

// challengeSize is the length of a challenge in hexadecimal digits. The first 8 bytes say when the
// challenge was made. The other 16 bytes are a MAC by which a node recognizes its own challenges.
const challengeSize = 2 * (8 + 16)

func (s *Secret) newChallenge() string { return s.challengeOf(time.Since(s.start)) }

func (s *Secret) challengeOf(made time.Duration) string {
	at := binary.BigEndian.AppendUint64(nil, uint64(made))
	m := hmac.New(sha256.New, s.key[:])
	m.Write(at)
	return hex.EncodeToString(m.Sum(at)[:challengeSize/2])
}

// isChallenge reports whether text is a challenge of this node that is still valid.
func (s *Secret) isChallenge(text string) bool {
	at, err := hex.DecodeString(text)
	if err != nil || len(text) != challengeSize {
		return false
	}
	made := time.Duration(binary.BigEndian.Uint64(at))
	return hmac.Equal([]byte(text), []byte(s.challengeOf(made))) &&
		time.Since(s.start)-made < challengeTime
}

// nodeOf returns the address of the node that receives a request.
func nodeOf(req *http.Request) string { return req.URL.Scheme + "://" + req.URL.Host }
