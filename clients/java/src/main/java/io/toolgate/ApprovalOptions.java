package io.toolgate;

import io.toolgate.v1.PromptFilter;

/**
 * Says which prompts to answer, and as whom. By default those of the calls that the client makes, of calls made on their
 * behalf, and of the client's session.
 *
 * @param name the approver's name, recorded with its decisions
 * @param filter which prompts to see; if it names nobody's, the client's own
 * @param listener is told what becomes of prompts and replies
 */
public record ApprovalOptions(String name, PromptFilter filter, ApprovalListener listener) {
    /**
     * Answers the prompts of the client's own calls under this name.
     *
     * @param name the approver's name
     * @return the options
     */
    public static ApprovalOptions named(String name) {
        return new ApprovalOptions(name, PromptFilter.getDefaultInstance(), new ApprovalListener() {});
    }

    /**
     * Answers only the prompts of one workspace.
     *
     * @param workspace its name
     * @return the options
     */
    public ApprovalOptions workspace(String workspace) {
        return filter(filter.toBuilder().setWorkspace(workspace).build());
    }

    /**
     * Answers the prompts of this session, and of others that were named before, whoever makes the calls.
     *
     * @param session its id
     * @return the options
     */
    public ApprovalOptions session(String session) {
        return filter(filter.toBuilder().addSessionIds(session).build());
    }

    /**
     * Answers the prompts of everybody's calls.
     *
     * @return the options
     */
    public ApprovalOptions everybody() {
        return filter(filter.toBuilder().setAll(true).build());
    }

    /**
     * Answers only what a filter lets through.
     *
     * @param filter the filter
     * @return the options
     */
    public ApprovalOptions filter(PromptFilter filter) {
        return new ApprovalOptions(name, filter, listener);
    }

    /**
     * Tells a listener what becomes of prompts and replies.
     *
     * @param listener the listener
     * @return the options
     */
    public ApprovalOptions listener(ApprovalListener listener) {
        return new ApprovalOptions(name, filter, listener);
    }

    /** Makes the filter that is sent by a client of this name whose calls are in this session. */
    PromptFilter filter(String clientId, String session) {
        PromptFilter filter = this.filter.getWorkspace().isEmpty()
                ? this.filter.toBuilder().setWorkspace("-").build()
                : this.filter;
        boolean namesSome = filter.getSessionIdsCount() > 0 || filter.getClientIdsCount() > 0;
        if (filter.getAll() && namesSome) {
            throw new IllegalArgumentException("approvals of everybody's calls name no sessions");
        }
        if (filter.getAll() || namesSome) {
            return filter;
        }
        PromptFilter.Builder own = filter.toBuilder().addClientIds(clientId);
        return (session.isEmpty() ? own : own.addSessionIds(session)).build();
    }
}
