// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// The condition types. Ready, Stalled and Reconciling are those of kstatus.
const (
	// ConditionReady is the summary: the proxy can be used. It is True while Provisioned and Healthy are.
	ConditionReady = "Ready"
	// ConditionHealthy: real requests get through the proxy. Unknown until the first probe of a machine succeeds. Absent
	// where the operator doesn't probe.
	ConditionHealthy = "Healthy"
	// ConditionProvisioned: the machine runs and has an address; for mode External: an endpoint is declared.
	ConditionProvisioned = "Provisioned"
	// ConditionReconciling is present, and True, while the operator is working towards the spec.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is present, and True, while the operator can't go on until somebody changes something.
	ConditionStalled = "Stalled"
)

// The reasons of conditions and Events. Every one of them is explained in docs/states.md.
const (
	// ReasonProvisioning: a machine was asked for and isn't running yet.
	ReasonProvisioning = "Provisioning"
	// ReasonBootProblem: a machine was asked for, and its provider says why it isn't running yet.
	ReasonBootProblem = "BootProblem"
	// ReasonCreated: the machine runs.
	ReasonCreated = "Created"
	// ReasonReplacing: the machine is being removed, and another one will be made.
	ReasonReplacing = "Replacing"
	// ReasonDeleting: the Proxy is being deleted, its machine first.
	ReasonDeleting = "Deleting"
	// ReasonExternalEndpoint: somebody else runs the proxy.
	ReasonExternalEndpoint = "ExternalEndpoint"
	// ReasonQuotaExceeded: the account is full.
	ReasonQuotaExceeded = "QuotaExceeded"
	// ReasonCapacityExhausted: the zone has no machine to give.
	ReasonCapacityExhausted = "CapacityExhausted"
	// ReasonPermanentError: the request can't work as it is.
	ReasonPermanentError = "PermanentError"
	// ReasonAccessDenied: the account's credentials or permissions don't suffice.
	ReasonAccessDenied = "AccessDenied"
	// ReasonThrottled: the account asked the operator to slow down.
	ReasonThrottled = "Throttled"
	// ReasonProviderError: the account's API fails; the operator tries again.
	ReasonProviderError = "ProviderError"
	// ReasonCloudInitError: the cloud-init Secret, or a key of it, is missing or unusable.
	ReasonCloudInitError = "CloudInitError"
	// ReasonAuthError: the Secret with the proxy's credentials is missing or unusable.
	ReasonAuthError = "AuthError"
	// ReasonPaused: the paused annotation stops everything.
	ReasonPaused = "Paused"
	// ReasonInvalidAnnotation: an annotation of ours has a value that can't be acted on.
	ReasonInvalidAnnotation = "InvalidAnnotation"
	// ReasonLedgerError: the API server refuses the operator's own annotation or finalizer.
	ReasonLedgerError = "LedgerError"
	// ReasonOtherInstallation: the Proxy's machines are those of another operator. Event only.
	ReasonOtherInstallation = "OtherInstallation"
	// ReasonProbing: the machine runs, and no request got through it yet.
	ReasonProbing = "Probing"
	// ReasonHealthy: requests get through the proxy.
	ReasonHealthy = "Healthy"
	// ReasonNoTargets: there is nothing to ask for through the proxy, so that it can't be proved.
	ReasonNoTargets = "NoTargets"
	// ReasonRemediationHeld: many proxies of one place turned unhealthy at once; none is replaced for it. Event only.
	ReasonRemediationHeld = "RemediationHeld"
	// ReasonRemediationResumed: unhealthy proxies of that place are replaced again. Event only.
	ReasonRemediationResumed = "RemediationResumed"
	// ReasonWaitsForBudget: the machine is to be replaced when the namespace's disruption budget has a place. Event only.
	ReasonWaitsForBudget = "WaitsForBudget"
	// ReasonGateClosed: calls to an account are held back by the operator's guards. Event only.
	ReasonGateClosed = "GateClosed"
	// ReasonGateOpened: calls that were held back go again. Event only.
	ReasonGateOpened = "GateOpened"
	// ReasonAbandoned: the Proxy was let go without its machine, as the abandon annotation asked. Event only.
	ReasonAbandoned = "Abandoned"
	// ReasonOrphanDeleted: a machine whose Proxy is gone was deleted. Event only.
	ReasonOrphanDeleted = "OrphanDeleted"
	// ReasonOrphanReported: a machine is there whose Proxy is gone, and the account's mode is Report. Event only.
	ReasonOrphanReported = "OrphanReported"
	// ReasonOrphanSweepStopped: so many machines have no Proxy that a person must confirm their deletion. Event only.
	ReasonOrphanSweepStopped = "OrphanSweepStopped"
)
