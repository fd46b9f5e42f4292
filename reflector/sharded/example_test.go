package sharded_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewatch-go/nodewatch/listwatch"
	"github.com/nodewatch-go/nodewatch/listwatch/listwatchtest"
	"github.com/nodewatch-go/nodewatch/listwatch/shard"
	"github.com/nodewatch-go/nodewatch/reflector/sharded"
)

// A replica that is the second of two becomes the second of three.
func ExampleReplica_Reshard() {
	srv := listwatchtest.New(listwatchtest.Config{Sharding: listwatchtest.ShardingOn})
	defer srv.Close()
	for i := range 60 {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("pod-", i)}}
		if err := srv.Create(pod); err != nil {
			panic(err)
		}
	}

	second := shard.Shard{Index: 1, Count: 2}
	replica, err := sharded.New(sharded.Config[*corev1.Pod]{
		ListWatch: listwatch.Config{REST: srv.RESTConfig(), Resource: corev1.SchemeGroupVersion.WithResource("pods")},
		Shard:     second,
	})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- replica.Run(ctx) }()
	if err := replica.WaitForSync(ctx); err != nil {
		panic(err)
	}
	n := replica.Store().Len()
	fmt.Println(replica.Shards()[0], "has some of 60 pods:", n > 0 && n < 60)

	// All replicas have the new shard before anybody lets go of the old one.
	everybodySynced := func(context.Context) error { return nil }
	if err := replica.Reshard(ctx, shard.Shard{Index: 1, Count: 3}, everybodySynced); err != nil {
		panic(err)
	}
	fmt.Println(replica.Shards()[0])
	cancel()
	fmt.Println(<-done)
	// Output:
	// 2 of 2 has some of 60 pods: true
	// 2 of 3
	// <nil>
}
