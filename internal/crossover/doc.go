// Package crossover says in which order contenders that are measured in one run have their turns, as in a crossover trial.
package crossover
