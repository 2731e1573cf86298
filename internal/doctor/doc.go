// Package doctor looks at what a streaming server needs of its host, and says what to change.
//
//	/proc, /sys, limits ──▶ Host ──▶ check, check, … ──▶ Report ──▶ text or JSON
//	                                   ▲
//	                        Plan: what is to be served
//
// A check is a function of a Host and a Plan and of nothing else: it runs no command, writes nothing, and asks no network.
// What it cannot know is Unknown, and no reason to fail. What files say is believed as far as it is a number in its bounds.
package doctor
