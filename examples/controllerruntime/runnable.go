package controllerruntime

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Runnable lets a manager run a collection: mgr.Add(Runnable{r}).
//
// It does not wait for leader election: a replica that stands by has a full
// store when its turn comes, as with the manager's own cache.
type Runnable struct {
	// Collection is a *reflector.Reflector, or anything else that is a
	// reflector.Collection. It must not run yet.
	Collection interface{ Run(context.Context) error }
}

// Start runs the collection until ctx ends.
func (r Runnable) Start(ctx context.Context) error { return r.Collection.Run(ctx) }

// NeedLeaderElection says no.
func (r Runnable) NeedLeaderElection() bool { return false }

var (
	_ manager.Runnable               = Runnable{}
	_ manager.LeaderElectionRunnable = Runnable{}
)
