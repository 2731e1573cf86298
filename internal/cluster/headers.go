package cluster

// What a request to another node carries.
const (
	HeaderToken = "Millrace-Cluster" // the token that all nodes have
	HeaderNode  = "Millrace-Node"    // the node that asks
)
