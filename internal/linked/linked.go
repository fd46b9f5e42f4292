// Package linked has a list whose elements can go from the middle, and belong to who made them.
package linked

// Node is an element. It is in one list at most, and the zero Node is in none.
type Node[T any] struct {
	Value      T
	prev, next *Node[T]
}

// Next returns the one behind n, or nil.
func (n *Node[T]) Next() *Node[T] { return n.next }

// List is a list of nodes. The zero List is empty. It is not safe for use by
// several goroutines.
type List[T any] struct {
	first, last *Node[T]
	n           int
}

// First returns the first node, or nil.
func (l *List[T]) First() *Node[T] { return l.first }

// Len returns how many nodes there are.
func (l *List[T]) Len() int { return l.n }

// Push puts n, which is in no list, at the end.
func (l *List[T]) Push(n *Node[T]) {
	n.prev, n.next = l.last, nil
	if l.last != nil {
		l.last.next = n
	} else {
		l.first = n
	}
	l.last = n
	l.n++
}

// Remove takes out n, which is in l. It keeps no other node alive then.
func (l *List[T]) Remove(n *Node[T]) {
	if n.prev != nil {
		n.prev.next = n.next
	} else {
		l.first = n.next
	}
	if n.next != nil {
		n.next.prev = n.prev
	} else {
		l.last = n.prev
	}
	n.prev, n.next = nil, nil
	l.n--
}
