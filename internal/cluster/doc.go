// Package cluster lets several servers be one: any node takes a publisher, and any node serves a viewer.
package cluster
