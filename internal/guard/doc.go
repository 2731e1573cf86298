// Package guard has processes die with the one that has started them, however that ends: the servers of tests and of
// the soak.
package guard
