package syncloop

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
)

// Runtime is what a PLEG needs of a container runtime.
type Runtime interface {
	// Pods returns all pods that the runtime has containers of, also of those
	// that have ended and are not removed yet. It has to end with ctx.
	Pods(ctx context.Context) ([]RuntimePod, error)
}

// RuntimePod is a pod as a runtime sees it.
type RuntimePod struct {
	UID             types.UID
	Namespace, Name string
	// Containers are the pod's containers and sandboxes, in any order.
	Containers []Container
}

// Container is a container, or a sandbox, at one moment.
type Container struct {
	ID    string // of the runtime; unique on the node
	Name  string
	State ContainerState
}

// ContainerState is what a container is doing.
type ContainerState uint8

// The states of containers.
const (
	ContainerUnknown ContainerState = iota // created and not started, or not to be told
	ContainerRunning
	ContainerExited
)

// EventType is what happened to a container.
type EventType string

// The events, in the kubelet's words.
const (
	ContainerStarted EventType = "ContainerStarted" // it runs
	ContainerDied    EventType = "ContainerDied"    // it ran, or was there, and does not run any more
	ContainerRemoved EventType = "ContainerRemoved" // it had ended, and is not there any more
	ContainerChanged EventType = "ContainerChanged" // its state is not known
)

// LifecycleEvent is something that happened to a container of a pod.
type LifecycleEvent struct {
	Type            EventType
	Pod             types.UID
	Namespace, Name string // of the pod, as the runtime has them
	ContainerID     string
	ContainerName   string
}

// LifecycleEvents makes them; *PLEG does by listing.
type LifecycleEvents interface {
	// Run makes events until ctx ends, and returns nil then.
	Run(ctx context.Context) error
	// Events is the one channel of events. It is not closed.
	Events() <-chan LifecycleEvent
	// Healthy says why the events cannot be relied upon now, or nil.
	Healthy() error
}
