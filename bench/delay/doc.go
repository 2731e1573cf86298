// Package delay joins two hosts of one machine by a line that takes its time, as one between continents does. What it measures
// is how fast a file comes over such a line.
package delay
