//! An element of EC2's answers, which are XML.

use roxmltree::{Document, Node};

/// An element with its text, or its children.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Element {
    /// The name, without a namespace.
    pub name: String,
    /// The text in it.
    pub text: String,
    /// The elements in it.
    pub children: Vec<Self>,
}

impl Element {
    /// Reads a document.
    ///
    /// # Errors
    ///
    /// It is not well-formed, or defines entities of its own.
    pub fn parse(document: &str) -> Result<Self, roxmltree::Error> {
        Ok(Self::from_node(Document::parse(document)?.root_element()))
    }

    fn from_node(node: Node) -> Self {
        let children: Vec<_> = node.children().filter(Node::is_element).map(Self::from_node).collect();
        // White space between elements means nothing.
        let text = node.text().filter(|_| children.is_empty()).unwrap_or_default().to_owned();
        Self { name: node.tag_name().name().to_owned(), text, children }
    }

    /// The first element of that name in it.
    pub fn child(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.name == name)
    }

    /// The text of the element of that name in it; `None` if it is empty.
    pub fn value(&self, name: &str) -> Option<String> {
        self.child(name).map(|child| child.text.clone()).filter(|text| !text.is_empty())
    }

    /// The entries of the list of that name in it.
    pub fn items(&self, name: &str) -> impl Iterator<Item = &Self> {
        self.child(name).into_iter().flat_map(|list| &list.children)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_as_awss_page_shows_it() {
        // <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeSecurityGroups.html>
        let text = r#"<DescribeSecurityGroupsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
            <requestId>1d62eae0-acdd-481d-88c9-example</requestId>
            <securityGroupInfo><item><groupId>sg-9bf6ceff</groupId><groupName>SSH &amp; more</groupName>
              <ipPermissions><item><ipProtocol>tcp</ipProtocol><groups/></item></ipPermissions></item></securityGroupInfo>
            </DescribeSecurityGroupsResponse>"#;
        let root = Element::parse(text).unwrap();
        let groups: Vec<_> = root.items("securityGroupInfo").collect();
        assert_eq!(groups.len(), 1);
        assert_eq!(groups[0].value("groupName").as_deref(), Some("SSH & more"));
        let permission = groups[0].items("ipPermissions").next().unwrap();
        assert_eq!((permission.value("ipProtocol").as_deref(), permission.items("groups").count()), (Some("tcp"), 0));
        assert_eq!((root.value("nextToken"), root.items("tagSet").count()), (None, 0));
    }

    #[test]
    fn what_is_no_document_or_defines_entities_is_an_error() {
        for text in ["", "<a>", "{}", "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>"] {
            assert!(Element::parse(text).is_err(), "{text}");
        }
    }
}
