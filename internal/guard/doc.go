// Package guard makes processes die with the one that has started them, however that one ends: the servers of tests and
// of the soak.
package guard
