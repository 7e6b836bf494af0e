// Package verdict decides why a task failed. Decide is a pure function from the record of a
// task to a kind and its reasons. It names infrastructure only with a measured sign, and
// never names the task while a sign of infrastructure is in the record.
package verdict
