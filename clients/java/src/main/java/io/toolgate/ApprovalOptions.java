package io.toolgate;

import io.toolgate.v1.PromptFilter;

/**
 * Says which prompts to answer, and as whom.
 *
 * @param name the approver's name, recorded with its decisions
 * @param filter which prompts to see
 * @param listener is told what becomes of prompts and replies
 */
public record ApprovalOptions(String name, PromptFilter filter, ApprovalListener listener) {
    /**
     * Answers all prompts under this name.
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
     * Answers only the prompts of this session, and of others that were named before.
     *
     * @param session its id
     * @return the options
     */
    public ApprovalOptions session(String session) {
        return filter(filter.toBuilder().addSessionIds(session).build());
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
}
