// SPDX-License-Identifier: Apache-2.0

package health

import (
	"container/heap"
	"time"
)

// entry is one thing that waits for its time: a round of a subject, or the control probe of a target.
type entry struct {
	at      time.Time
	order   uint64 // among those of the same time, first come first served
	place   int    // in the queue, from 1; 0: not in it
	subject *subject
	witness *witness
}

// queue is a heap by time.
type queue struct {
	entries []*entry
	orders  uint64
}

// put makes e come up at a time, instead of the time it had.
func (q *queue) put(e *entry, at time.Time) {
	q.orders++
	e.at, e.order = at, q.orders
	if e.place > 0 {
		heap.Fix((*byTime)(&q.entries), e.place-1)
		return
	}
	heap.Push((*byTime)(&q.entries), e)
}

// take takes e out, if it is in.
func (q *queue) take(e *entry) {
	if e.place > 0 {
		heap.Remove((*byTime)(&q.entries), e.place-1)
	}
}

// first returns the earliest, nil if there is none.
func (q *queue) first() *entry {
	if len(q.entries) == 0 {
		return nil
	}
	return q.entries[0]
}

// byTime implements heap.Interface.
type byTime []*entry

func (h *byTime) Len() int { return len(*h) }

func (h *byTime) Less(i, j int) bool {
	a, b := (*h)[i], (*h)[j]
	if !a.at.Equal(b.at) {
		return a.at.Before(b.at)
	}
	return a.order < b.order
}

func (h *byTime) Swap(i, j int) {
	(*h)[i], (*h)[j] = (*h)[j], (*h)[i]
	(*h)[i].place, (*h)[j].place = i+1, j+1
}

func (h *byTime) Push(x any) {
	e, ok := x.(*entry)
	if !ok {
		return
	}
	*h = append(*h, e)
	e.place = len(*h)
}

func (h *byTime) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	e.place = 0
	return e
}
