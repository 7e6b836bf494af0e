#!/bin/sh
# First process of the test container: waits until it is stopped.
trap 'exit 0' TERM PWR INT
while :; do
	sleep 60 &
	wait $!
done
